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
        new = [key for key in keys[len(hits) :] if key not in self.users]
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


# %% right: a tree of pages
class PrefixCache:
    def __init__(self, pages, size):
        self.size, self.pages, self.clock = size, pages, 0
        self.root, self.tables = {"below": {}}, {}

    def nodes(self):
        todo, found = [self.root], []
        while todo:
            node = todo.pop()
            todo += node["below"].values()
            found += node["below"].values()
        return found

    def admit(self, request, tokens, tenant):
        parts = [tuple(tokens[at : at + self.size]) for at in range(0, len(tokens), self.size)]
        node, hits = self.root, []
        for part in parts[:-1]:
            if part not in node["below"]:
                break
            node = node["below"][part]
            hits.append(node)
        nodes = self.nodes()
        others = sum(more for _, more in self.tables.values())
        unused = [each for each in nodes if each["users"] == 0 and not any(each is hit for hit in hits)]
        unused.sort(key=lambda each: each["released"])
        fresh, empty = len(parts) - len(hits), self.pages - len(nodes) - others
        if fresh > empty + len(unused):
            return None
        for each in unused[: max(0, fresh - empty)]:
            del each["above"]["below"][each["part"]]
        mine = list(hits)
        for part in parts[len(hits) :]:
            if len(part) == self.size and part not in node["below"]:
                node["below"][part] = {"below": {}, "above": node, "part": part, "users": 0}
                node = node["below"][part]
                mine.append(node)
        for each in mine:
            each["users"] += 1
        self.tables[request] = mine, len(parts) - len(mine)
        return self.size * len(hits)

    def release(self, request):
        mine, _ = self.tables.pop(request)
        for each in mine[::-1]:
            self.clock += 1
            each["users"] -= 1
            each["released"] = self.clock


# %% right: any variant  from: as written
# - class PrefixCache:
# + from course_lib import params
# + SHARING = params("prefix-cache").sharing
# +
# +
# + class PrefixCache:
# -         keys = [tuple(tokens[:end]) for end in ends]
# +         whose = tenant if SHARING == "tenant" else None
# +         keys = [(whose, *tokens[:end]) for end in ends]

# %% wrong: the key of a page alone => values not-chained  from: as written
# -         keys = [tuple(tokens[:end]) for end in ends]
# +         keys = [tuple(tokens[end - self.size : end]) for end in ends]

# %% wrong: everything from the cache => values nothing-computed  from: as written
# -         for key in keys[: (len(tokens) - 1) // self.size]:
# +         for key in keys:

# %% wrong: the beginning goes first => generality beginning-first  from: as written
# -         for key in reversed(keys):
# +         for key in keys:

# %% wrong: released pages are forgotten => values forgets  from: as written
# -                 self.unused[key] = None
# +                 del self.users[key]
# +                 self.empty += 1

# %% wrong: pages in use are given up => generality -  from: as written
# -             self.users[key] += 1
# -             self.unused.pop(key, None)
# +             self.unused.pop(key, None)

# %% wrong: hits count as free => generality -  from: as written
# -         if fresh > self.empty + len(self.unused) - sum(key in self.unused for key in hits):
# +         if fresh > self.empty + len(self.unused):

# %% wrong: tenants share nothing => values tenants-apart unless sharing=tenant  from: as written
# -         keys = [tuple(tokens[:end]) for end in ends]
# +         keys = [(tenant, *tokens[:end]) for end in ends]

# %% wrong: the order of admission => generality -  from: as written
# -                 key, _ = self.unused.popitem(last=False)
# -                 del self.users[key]
# +                 key = next(each for each in self.users if each in self.unused)
# +                 del self.unused[key], self.users[key]

# %% wrong: a page is cached twice => generality -  from: as written
# -         new = [key for key in keys[len(hits) :] if key not in self.users]
# +         new = keys[len(hits) :]


# %% wrong: left as it is => not-answered
class PrefixCache:
    def __init__(self, pages, size):
        raise NotImplementedError
