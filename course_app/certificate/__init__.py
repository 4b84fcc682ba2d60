"""The certificate: what a learner did, judged again from their work folder, as one page that anyone with that folder
can verify.

`record` gathers what the page says, `page` writes it, `issued` remembers that it was written, `verify` compares a page
with a work folder.
"""
