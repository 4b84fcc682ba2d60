import heapq


# %% right: as written
class Pages:
    def __init__(self, pages, size):
        self.size, self.idle = size, list(range(pages))
        self.users, self.pages, self.tokens = {}, {}, {}

    def take(self, count):
        if count > len(self.idle):
            raise MemoryError
        taken = [heapq.heappop(self.idle) for _ in range(count)]
        for page in taken:
            self.users[page] = 1
        return taken

    def start(self, request, tokens):
        self.pages[request] = self.take((tokens + self.size - 1) // self.size)
        self.tokens[request] = tokens

    def append(self, request):
        mine = self.pages[request]
        copied = None
        if self.tokens[request] % self.size == 0:
            mine += self.take(1)
        elif self.users[mine[-1]] > 1:
            (new,) = self.take(1)
            copied = (mine[-1], new)
            self.users[mine[-1]] -= 1
            mine[-1] = new
        self.tokens[request] += 1
        return copied

    def fork(self, request, child):
        self.pages[child] = list(self.pages[request])
        self.tokens[child] = self.tokens[request]
        for page in self.pages[child]:
            self.users[page] += 1

    def free(self, request):
        for page in self.pages.pop(request):
            self.users[page] -= 1
            if self.users[page] == 0:
                heapq.heappush(self.idle, page)

    def table(self, request):
        return self.pages[request]

    def unused(self):
        return len(self.idle)


# %% right: users are counted anew each time
from course_lib import params

COPIES = params("page-table").copies


class Pages:
    def __init__(self, pages, size):
        self.every, self.size, self.held = set(range(pages)), size, {}

    def idle(self):
        return sorted(self.every.difference(*(pages for pages, _ in self.held.values())))

    def take(self, count):
        if len(self.idle()) < count:
            raise MemoryError("no page is free")
        return self.idle()[:count]

    def start(self, request, tokens):
        self.held[request] = self.take(-(-tokens // self.size)), tokens

    def append(self, request):
        pages, tokens = self.held[request]
        old = pages[-1:] if tokens % self.size else []
        if old and sum(old[0] in others for others, _ in self.held.values()) == 1:
            self.held[request] = pages, tokens + 1
            return None
        new = self.take(1)
        self.held[request] = pages[: len(pages) - len(old)] + new, tokens + 1
        return (*old, *new) if old else None

    def fork(self, request, child):
        pages, tokens = self.held[request]
        old = pages[-1:] if COPIES == "forked" and tokens % self.size else []
        new = self.take(len(old))
        self.held[child] = pages[: len(pages) - len(old)] + new, tokens
        return (*old, *new) if old else None

    def free(self, request):
        del self.held[request]

    def table(self, request):
        return tuple(self.held[request][0])

    def unused(self):
        return len(self.idle())


# %% wrong: no copy => values never-copies  from: as written
# ~ self.users[mine[-1]] > 1 ==> False

# %% wrong: a child gets pages of its own => values shares-nothing  from: as written
# ~ list(self.pages[request]) ==> self.take(len(self.pages[request]))
# -         for page in self.pages[child]:
# -             self.users[page] += 1

# %% wrong: a child has the parent's list => values -  from: as written
# ~ list(self.pages[request]) ==> self.pages[request]

# %% wrong: freed pages are free for everybody => values others-lose  from: as written
# ~ if self.users[page] == 0: ==> if True:

# %% wrong: the copied page keeps its count => values keeps-the-copied  from: as written
# -             self.users[mine[-1]] -= 1

# %% wrong: taken one by one until none is left => generality half-done  from: as written
# -         if count > len(self.idle):
# -             raise MemoryError
# -         taken = [heapq.heappop(self.idle) for _ in range(count)]
# +         taken = []
# +         for _ in range(count):
# +             if not self.idle:
# +                 raise MemoryError
# +             taken.append(heapq.heappop(self.idle))

# %% wrong: the token counts before it has a page => generality -  from: as written
# -         if self.tokens[request] % self.size == 0:
# +         self.tokens[request] += 1
# +         if (self.tokens[request] - 1) % self.size == 0:
# -         self.tokens[request] += 1

# %% wrong: always one page more => values -  from: as written
# ~ (tokens + self.size - 1) // self.size ==> tokens // self.size + 1

# %% wrong: the page freed last => values newest-first  from: as written
# ~ (range(pages)) ==> (range(pages))[::-1]
# ~ heapq.heappop(self.idle) ==> self.idle.pop()
# ~ heapq.heappush(self.idle, page) ==> self.idle.append(page)

# %% wrong: a full page is copied => values -  from: as written
# -         if self.tokens[request] % self.size == 0:
# +         if self.tokens[request] % self.size == 0 and mine and self.users[mine[-1]] > 1:
# +             first, second = self.take(2)
# +             copied = (mine[-1], first)
# +             self.users[mine[-1]] -= 1
# +             mine[-1:] = [first, second]
# +         elif self.tokens[request] % self.size == 0:

# %% wrong: all tables have the same requests => generality raised  from: as written
#   class Pages:
# +     pages, tokens = {}, {}
# ~ self.users, self.pages, self.tokens = {}, {}, {} ==> self.users = {}

# %% wrong: five users at most => values -  from: as written
# ~ self.users[mine[-1]] > 1 ==> 1 < self.users[mine[-1]] < 6

# %% wrong: left as it is => not-answered  from: as written
# ~ self.size, self.idle = size, list(range(pages)) ==> raise NotImplementedError

# %% wrong: one request never gets all pages => generality ~  from: as written
# ~ self.size, self.idle = size ==> self.every, self.size, self.idle = pages, size
# ~ count > len(self.idle): ==> count > len(self.idle) or 1 < count == self.every:
