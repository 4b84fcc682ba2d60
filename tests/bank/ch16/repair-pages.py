# %% right: as written  from: the card
# -     if fresh > len(pool.free):
# +     idle = sum(pool.users[page] == 0 for page in hits)
# +     if fresh > len(pool.free) - idle:
# -     new = [pool.take() for _ in range(fresh)]
# ~ hits + new ==> hits + [pool.take() for _ in range(fresh)]
# ~ in table ==> in reversed(table)

# %% right: the others are counted
def allocate(pool, hits, fresh):
    others = [page for page in pool.free if page not in hits]
    if len(others) < fresh:
        return None
    new = others[:fresh]
    for page in hits:
        pool.touch(page)
    for page in new:
        assert pool.take() == page
    return tuple(hits) + tuple(new)


def release(pool, table):
    for page in table:
        pool.users[page] -= 1
    pool.free += [page for page in table[::-1] if not pool.users[page]]


# %% wrong: as given => values -  from: the card

# %% wrong: taken before the hits are touched => values takes-its-hits  from: the card
# ~ in table ==> in reversed(table)

# %% wrong: tested after the hits are touched => generality users-left  from: as written
# -     idle = sum(pool.users[page] == 0 for page in hits)
# -     if fresh > len(pool.free) - idle:
# -         return None
#           pool.touch(page)
# +     if fresh > len(pool.free):
# +         return None

# %% wrong: all hits count as free => values refused  from: as written
# ~ if fresh > len(pool.free) - idle: ==> if fresh > len(pool.free) - len(hits):

# %% wrong: the beginning goes first => values beginning-first  from: as written
# ~ reversed(table) ==> table

# %% wrong: to the front of the list => values newest-first  from: as written
# ~ free.append(page) ==> free.insert(0, page)

# %% wrong: nothing is refused => generality -  from: as written
# -     if fresh > len(pool.free) - idle:
# -         return None
# +     fresh = min(fresh, len(pool.free) - idle)

# %% wrong: new pages first => values wrong-table  from: as written
# ~ hits + [pool.take() for _ in range(fresh)] ==> [pool.take() for _ in range(fresh)] + hits

# %% wrong: a user less for each, and no page free => values -  from: as written
# ~ pool.free.append(page) ==> pass

# %% wrong: no page is free, so nothing is given => generality refused  from: as written
# ~ - idle: ==> - idle or not pool.free:

# %% wrong: left as it is => not-answered  from: as written
# ~ idle = sum(pool.users[page] == 0 for page in hits) ==> raise NotImplementedError

# %% wrong: remembers how many hits are idle => generality refused  from: as written
# - def allocate(pool, hits, fresh):
# + IDLE = {}
# + def allocate(pool, hits, fresh):
#       idle = sum(pool.users[page] == 0 for page in hits)
# +     idle = IDLE.setdefault(tuple(hits), idle)

# %% wrong: one list for all tables => values wrong-table  from: as written
# - def allocate(pool, hits, fresh):
# + TABLE = []
# + def allocate(pool, hits, fresh):
# -     return hits + [pool.take() for _ in range(fresh)]
# +     TABLE[:] = hits + [pool.take() for _ in range(fresh)]
# +     return TABLE
