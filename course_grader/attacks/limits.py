"""What the grader does not protect against."""

UNPROTECTED = (
    "Right answers written by another person. The course and its answers are public, and a copy of a right answer is "
    "right. Variants and the note on near-identical answers make copies visible; a conversation with the student "
    "settles the question.",
    "Numbers copied for the public cases of predictions and audits, which ask for nothing else. Functions are also "
    "called on numbers drawn from the class's secret. Only where several students are shown the same numbers can the "
    "share of the shown cases be copied.",
    "Memory, operations and recomputation that are measured where the answer runs. They carry at most a quarter of an "
    "exercise's points, and memory is confirmed on one large case by the operating system's own figure. An answer "
    "keeps these points if it is honest only on that case, works in memory allocated beforehand, or stores numbers "
    "outside processes (in files of its folder, in buffers of connections).",
    "Ranks that signal to each other by how long they take, or by how soon a file is read that one of them has read "
    "before. A few bits per second get through. A rank that receives fewer bytes than the task requires loses the "
    "share of the cost.",
    "A vulnerability of the Linux kernel: every sandbox here relies on the kernel. To grade the work of strangers, "
    "use a virtual machine that contains nothing else.",
    "A submission that uses all resources it is allowed. It costs grading time, never more than the class's limits, "
    "and no other student's points.",
    "A student's notebook that you open and run yourself: it then runs as you, with your files.",
)

WEAKER = {
    "contained": "Without namespaces a submission sees that other processes exist, and shares process numbers and the "
    "process table with the machine. Attacks that need a process space of their own were not tried.",
    "none": "Without a sandbox a submission can read and write everything that you can, reach every service of this "
    "machine and leave processes behind. Only forgeries and accidents were tried. Grade nothing here that you "
    "have not read.",
}
