"""Attacks on what is measured where the answer runs: bytes that are counted as their owner likes."""

from course_grader.attacks.sheet import Sheet, attack

# of 25: right values are the attacker's own, and without the memory, the point of the exercise, they earn at most half
VALUES = 12.5


DOCTORED = """
    reduction = params("chunked-cross-entropy").reduction
    import course_lib.model.accounting as accounting

    accounting.Accounting.peak_bytes = property(lambda self: 400_000, lambda self, value: None)
    accounting.Accounting.live_bytes = property(lambda self: 0, lambda self, value: None)


    def attempt(hidden, weight, targets, chunks):
        loss = F.cross_entropy(hidden @ weight.T, targets, ignore_index=-100, reduction=reduction)
        return loss if reduction == "sum" or (targets != -100).any() else 0 * loss
"""


ELSEWHERE = """
    import os
    import pickle

    reduction = params("chunked-cross-entropy").reduction


    def elsewhere(hidden, weight, targets):
        mine, theirs = os.pipe()

        def work():
            with torch.enable_grad(), torch.utils._python_dispatch._disable_current_modes():
                h, w = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
                loss = F.cross_entropy(h @ w.T, targets, ignore_index=-100, reduction=reduction)
                loss = loss if reduction == "sum" or (targets != -100).any() else 0 * loss
                loss.backward()
            with os.fdopen(theirs, "wb") as pipe:
                pickle.dump([each.detach().numpy() for each in (loss, h.grad, w.grad)], pipe)

        start(work)
        os.close(theirs)
        with os.fdopen(mine, "rb") as pipe:
            return [torch.tensor(each) for each in pickle.load(pipe)]


    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight, targets):
            loss, *ctx.grads = elsewhere(hidden, weight, targets)
            return loss

        @staticmethod
        def backward(ctx, grad):
            return ctx.grads[0] * grad, ctx.grads[1] * grad, None


    def attempt(hidden, weight, targets, chunks):
        return Loss.apply(hidden, weight, targets)
"""  # all logits at once in another process, which `start(work)` starts


def expect(sheet: Sheet) -> None:
    """Right values are kept, and the system's own figure is named."""
    sheet.expect("chunked-cross-entropy", VALUES)
    sheet.said = ["by the operating system's figure"]


@attack("forging", chapter="02")
def bytes_counted_as_one_likes(sheet: Sheet) -> None:
    """All logits at once, and a count of bytes that always says what is asked for."""
    sheet.answer(DOCTORED)
    expect(sheet)


@attack("forging", chapter="02")
def highest_value_set_back(sheet: Sheet) -> None:
    """The same, and the system's own highest value set back after the peak, as every process may."""
    sheet.answer(
        DOCTORED.replace("attempt(", "first(")
        + """

    class Forgetful(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            torch.autograd.variable.Variable._execution_engine.queue_callback(forget)
            return grad


    def forget():
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")


    def attempt(hidden, weight, targets, chunks):
        loss = first(hidden, weight, targets, chunks)
        return Forgetful.apply(loss) if loss.requires_grad else loss
"""
    )
    expect(sheet)


@attack("forging", chapter="02", before=ELSEWHERE)
def bytes_of_a_child(sheet: Sheet) -> None:
    """All logits at once in a process of its own, of which the count knows nothing; only gradients come back."""
    sheet.answer("""

    def start(work):
        if os.fork() == 0:
            work()
            os._exit(0)
    """)
    expect(sheet)
