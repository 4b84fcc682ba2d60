"""What the grader does not protect from, said plainly."""

UNPROTECTED = (
    "Right answers that are somebody else's. The course and its answers are public, and a copy of a right answer is right. Variants and the line "
    "on near-identical answers make it visible; a conversation finds out.",
    "Numbers written down for the public cases, where the numbers are all that is asked: in predictions and audits. Functions are asked on numbers "
    "of the shown kind that are drawn from the class's secret; where several students are shown the same ones, the share of the shown cases is to be had.",
    "Memory, operations and recomputation that are measured where the answer runs. They carry a quarter of an exercise's points at most, and memory "
    "is confirmed on one large case by what the operating system saw; an answer that is honest there alone, works in memory that it laid in before, or keeps "
    "numbers in no process (files of its folder, buffers of connections), keeps them.",
    "Ranks that signal to each other by how long they take, or by how soon a file is read that one of them has read before. A few bits a second get "
    "through; whoever receives too few bytes loses the share of the cost.",
    "A hole in the Linux kernel: all walls here are the kernel's own. For work of strangers, grade in a virtual machine that holds nothing else.",
    "A submission that uses up what it may. It costs the marker that time, never more than the limits of the class together, and no other student's points.",
    "A student's notebook that you open and run yourself: then it is your process, with your files.",
)

WEAKER = {
    "contained": "Without namespaces a submission sees that other processes exist, and shares the machine's clock of processes and its process table; "
    "attacks that would need a process space of their own were not tried.",
    "none": "Without a sandbox a submission reads and writes all that you can, reaches every service of this machine and may leave processes behind. "
    "Only forgeries and accidents were tried. Grade nothing here that you have not read.",
}
