import math
from collections import OrderedDict


# %% right: as written
class PrefixCache:
    def __init__(self, pages, size):
        self.size, self.empty = size, pages
        self.users, self.unused, self.requests = {}, OrderedDict(), {}

    def admit(self, request, tokens, tenant):
        ends = range(self.size, len(tokens) + 1, self.size)
        keys = [tuple(tokens[:end]) for end in ends]
        hits = []
        for key in keys[: (len(tokens) - 1) // self.size]:
            if key not in self.users:
                break
            hits.append(key)
        fresh = math.ceil(len(tokens) / self.size) - len(hits)
        if fresh > self.empty + len(self.unused) - sum(key in self.unused for key in hits):
            return None
        for key in hits:
            self.users[key] += 1
            self.unused.pop(key, None)
        for _ in range(fresh):
            if self.empty:
                self.empty -= 1
            else:
                key, _ = self.unused.popitem(last=False)
                del self.users[key]
        new = [key for key in keys if key not in self.users]
        for key in new:
            self.users[key] = 1
        self.requests[request] = hits + new, fresh - len(new)
        return len(hits) * self.size

    def release(self, request):
        keys, others = self.requests.pop(request)
        self.empty += others
        for key in reversed(keys):
            self.users[key] -= 1
            if self.users[key] == 0:
                self.unused[key] = None


# %% right: prefixes with the time of their release
from course_lib import params

SHARING = params("prefix-cache").sharing


class PrefixCache:
    def __init__(self, pages, size):
        self.pages, self.size, self.clock, self.released, self.tables = pages, size, 0, {}, {}

    def admit(self, request, tokens, tenant):
        whose = tenant if SHARING == "tenant" else None
        prefixes = [(whose, *tokens[:end]) for end in range(self.size, len(tokens) + 1, self.size)]
        hits = prefixes[: (len(tokens) - 1) // self.size]
        while not set(hits) <= self.released.keys():
            hits.pop()
        used = {*hits, *(prefix for mine, _ in self.tables.values() for prefix in mine)}
        unused = sorted(self.released.keys() - used, key=self.released.get)
        blank = self.pages - len(self.released) - sum(others for _, others in self.tables.values())
        fresh = -(-len(tokens) // self.size) - len(hits)
        if fresh > blank + len(unused):
            return None
        for prefix in unused[: max(0, fresh - blank)]:
            del self.released[prefix]
        new = [prefix for prefix in prefixes[len(hits) :] if prefix not in self.released]
        self.released |= dict.fromkeys(new)
        self.tables[request] = hits + new, fresh - len(new)
        return self.size * len(hits)

    def release(self, request):
        for prefix in self.tables.pop(request)[0][::-1]:
            self.clock += 1
            self.released[prefix] = self.clock


# %% wrong: the key of a page alone => values not-chained  from: as written
# ~ tokens[:end] ==> tokens[end - self.size : end]

# %% wrong: everything from the cache => values nothing-computed  from: as written
# ~ for key in keys[: (len(tokens) - 1) // self.size]: ==> for key in keys:

# %% wrong: the beginning goes first => generality beginning-first  from: as written
# ~ reversed(keys) ==> keys

# %% wrong: released pages are forgotten => values forgets  from: as written
# -                 self.unused[key] = None
# +                 del self.users[key]
# +                 self.empty += 1

# %% wrong: pages in use are given up => generality -  from: as written
# -             self.users[key] += 1

# %% wrong: hits count as free => generality -  from: as written
# ~ - sum(key in self.unused for key in hits): ==> :

# %% wrong: tenants share nothing => values tenants-apart unless sharing=tenant  from: as written
# ~ keys = [tuple(tokens[:end]) for end in ends] ==> keys = [(tenant, *tokens[:end]) for end in ends]

# %% wrong: the order of admission => generality -  from: as written
# ~ key, _ = self.unused.popitem(last=False) ==> key = next(each for each in self.users if each in self.unused)
# ~ del self.users[key] ==> del self.unused[key], self.users[key]

# %% wrong: a page is cached twice => generality -  from: as written
# ~ [key for key in keys if key not in self.users] ==> keys[len(hits) :]

# %% wrong: a refusal makes the hits young => generality -  from: as written
#           fresh = math.ceil(len(tokens) / self.size) - len(hits)
# +         for key in hits:
# +             if key in self.unused:
# +                 self.unused.move_to_end(key)

# %% wrong: cached pages go before empty ones => generality cached-first  from: as written
# ~ if self.empty: ==> if not self.unused:

# %% wrong: the tokens' digits as a key => values other-hits  from: as written
# ~ tuple(tokens[:end]) ==> "".join(map(str, tokens[:end]))

# %% wrong: left as it is => not-answered  from: as written
# ~ self.size, self.empty = size, pages ==> raise NotImplementedError

# %% wrong: tokens are kept in 16 bits => values ~  from: as written
# ~ tuple(tokens[:end]) for end ==> tuple(token % 2**16 for token in tokens[:end]) for end

# %% wrong: prompts by their sums => values -  from: as written
# ~ keys = [tuple(tokens[:end]) for end in ends] ==> keys = [(end, sum(tokens[:end]), tokens[end - 1]) for end in ends]
