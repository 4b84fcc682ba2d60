import torch


# %% right: as written
class Scaler:
    def __init__(self, start, interval):
        self.scale, self.interval, self.clean = start, interval, 0

    def unscale(self, gradients):
        wide = [gradient.float() for gradient in gradients]
        overflow = not all(gradient.isfinite().all() for gradient in wide)
        return [gradient / self.scale for gradient in wide], overflow

    def update(self, overflow):
        if overflow:
            self.scale = max(self.scale / 2, 1.0)
            self.clean = 0
        else:
            self.clean += 1
            if self.clean == self.interval:
                self.scale *= 2
                self.clean = 0


# %% right: any variant  from: as written
# - class Scaler:
# + from course_lib import params
# + FORGIVEN = params("loss-scaler").forgiven
# + class Scaler:
# ~ clean = start, interval, 0 ==> clean, self.left = start, interval, 0, FORGIVEN
# -             self.scale = max(self.scale / 2, 1.0)
# -             self.clean = 0
# +             if not self.left:
# +                 self.scale = max(self.scale / 2, 1.0)
# +             self.clean, self.left = 0, max(0, self.left - 1)
# -                 self.clean = 0
# +                 self.clean, self.left = 0, FORGIVEN


# %% right: from the history
class Scaler:
    def __init__(self, start, interval):
        self.history, self.start, self.interval = [], start, interval

    @property
    def scale(self):
        scale, since = self.start, 0
        for overflow in self.history:
            since = 0 if overflow else since + 1
            if overflow:
                scale = max(1.0, scale * 0.5)
            elif since % self.interval == 0:
                scale = scale * 2
        return scale

    def unscale(self, gradients):
        inverse = 1 / self.scale
        found = torch.tensor(0.0)
        for gradient in gradients:
            found += (gradient.float() - gradient.float()).sum()  # NaN if one of them is infinite or NaN
        return [gradient.to(torch.float32) * inverse for gradient in gradients], bool(found != 0)

    def update(self, overflow):
        self.history.append(overflow)


# %% wrong: clean steps survive an overflow => values grows-over-overflows  from: as written
# -             self.clean = 0

# %% wrong: it grows during a skip => values counts-all  from: as written
# -         else:
# -             self.clean += 1
# -             if self.clean == self.interval:
# -                 self.scale *= 2
# -                 self.clean = 0
# +         self.clean += 1
# +         if self.clean == self.interval:
# +             self.scale, self.clean = 2 * self.scale, 0

# %% wrong: it doubles at every step from then on => values never-recounts  from: as written
# ~ clean == self ==> clean >= self
# -                 self.clean = 0

# %% wrong: one step too late => values late  from: as written
# ~ clean == self ==> clean > self

# %% wrong: it falls below 1 => generality below-one  from: as written
# ~ max(self.scale / 2, 1.0) ==> self.scale / 2

# %% wrong: it divides in fp16 => values another-kind  from: as written
# ~ gradient / self.scale for gradient in wide ==> gradient / self.scale for gradient in gradients

# %% wrong: it converts after dividing => values in-half  from: as written
# ~ gradient / self.scale for gradient in wide ==> (gradient / self.scale).float() for gradient in gradients

# %% wrong: NaN is no infinity => values nan-missed  from: as written
# ~ not all(gradient.isfinite().all() ==> any(bool(gradient.isinf().any())

# %% wrong: it looks at the first tensor => values overflow-missed  from: as written
# ~ (gradient.isfinite().all() for gradient in wide) ==> (gradient.isfinite().all() for gradient in wide[:1])

# %% wrong: the largest number counts as an overflow => generality false-alarm  from: as written
# ~ gradient.isfinite() ==> (gradient.abs() < 65504)

# %% wrong: it unscales in place => values changed  from: as written
# ~ [gradient / self.scale for gradient in wide], ==> [gradient.div_(self.scale).float() for gradient in gradients],

# %% wrong: it multiplies => values other-numbers  from: as written
# ~ gradient / self ==> gradient * self

# %% wrong: a constant scale => values stands-still  from: as written
#       def update(self, overflow):
# +         return

# %% wrong: it divides by the first scale => values first-scale  from: as written
# ~ clean = start, interval, 0 ==> clean, self.first = start, interval, 0, start
# ~ gradient / self.scale ==> gradient / self.first

# %% wrong: unscale halves the scale as well => values rescaled  from: as written
# -         return [gradient / self.scale for gradient in wide], overflow
# +         unscaled = [gradient / self.scale for gradient in wide]
# +         self.scale = max(self.scale / 2, 1.0) if overflow else self.scale
# +         return unscaled, overflow

# %% wrong: the sum in fp16 is the flag => generality false-alarm  from: as written
# ~ (gradient.isfinite().all() for gradient in wide) ==> (gradient.sum().isfinite() for gradient in gradients)

# %% wrong: a scale below 2 is not halved => generality other-scale  from: as written
# ~ max(self.scale / 2, 1.0) ==> self.scale / 2 if self.scale >= 2 else self.scale

# %% wrong: it grows to 2**24 at most => generality other-scale  from: as written
# ~ if self.clean == self.interval: ==> if self.clean == self.interval and self.scale < 2**24:

# %% wrong: an empty tensor is an overflow => generality false-alarm  from: as written
# ~ gradient.isfinite().all() for ==> gradient.numel() and gradient.isfinite().all() for

# %% wrong: all scalers share their scale => values ~  from: as written
# -         self.scale, self.interval, self.clean = start, interval, 0
# +         self.interval, self.clean, Scaler.shared = interval, 0, start
# +     scale = property(lambda self: Scaler.shared, lambda self, value: setattr(Scaler, "shared", value))
