# %% right: a function of the unit
def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% right: walking back, with running sums
def fsdp_peak(job):
    units, acts = job["units"], list(job["activations"])
    state = (4 + 8) * (sum(units) + job["rest"]) / job["ranks"]
    done, best, most = 0, None, -1
    for u in reversed(range(len(units))):
        whole = {u, u - 1} if job["reshard"] else set(range(u + 1))
        gathered = job["rest"] + sum(units[i] for i in whole if i >= 0)
        now = {"activations": sum(acts), "gradients": 4 * done / job["ranks"], "state": state}
        now |= {"gathered": job["width"] * gathered, "whole gradient": job["width"] * units[u], "work": job["work"][u]}
        if sum(now.values()) > most:
            best, most = now, sum(now.values())
        done += units[u]
        acts.pop()
    return best


# %% wrong: the most of each part => values most-of-each  from: a function of the unit
# -     return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))
# +     moments = [during(u) for u in range(len(units))]
# +     return {name: max(each[name] for each in moments) for name in moments[0]}

# %% wrong: one unit is gathered => values one-gathered  from: a function of the unit
# ~ max(u - 1, 0) ==> u

# %% wrong: always resharded => values not-kept  from: a function of the unit
# ~ (u - 1, 0) if job["reshard"] else 0 ==> (u - 1, 0)

# %% wrong: never resharded => values kept  from: a function of the unit
# ~ max(u - 1, 0) if job["reshard"] else 0 ==> 0

# %% wrong: the rest is not gathered => values rest-not-gathered  from: a function of the unit
# ~ * (sum(units[first : u + 1]) + job["rest"]) ==> * sum(units[first : u + 1])

# %% wrong: the rest has no state => values state-without-rest  from: a function of the unit
# ~ (sum(units) + job["rest"]) ==> sum(units)

# %% wrong: state is not sharded => values not-shared-out  from: a function of the unit
# ~ (sum(units) + job["rest"]) / ranks, ==> (sum(units) + job["rest"]),
# ~ (units[u + 1 :]) / ranks, ==> (units[u + 1 :]),

# %% wrong: weights are kept in 16 bits => values state-narrow  from: a function of the unit
# ~ 12 ==> (width + 8)

# %% wrong: gradients are kept in 16 bits => values gradients-narrow  from: a function of the unit
# ~ 4 ==> width

# %% wrong: gathered in 32 bits => values always-wide  from: a function of the unit
# ~ "gathered": width ==> "gathered": 4
# ~ "whole gradient": width ==> "whole gradient": 4

# %% wrong: all gradients from the beginning => values all-gradients  from: a function of the unit
# ~ * sum(units[u + 1 :]) / ranks ==> * sum(units) / ranks

# %% wrong: a share of the whole gradient => values share-of-gradient  from: a function of the unit
# ~ units[u], ==> units[u] / ranks,

# %% wrong: activations of what is done => values activations-of-done  from: a function of the unit
# ~ (job["activations"][: u + 1]), ==> (job["activations"][u:]),

# %% wrong: all units' work => values all-work  from: a function of the unit
# ~ job["work"][u] ==> sum(job["work"])

# %% wrong: the next one up => values wrong-neighbor  from: a function of the unit
# ~ first = max(u - 1, 0) if job["reshard"] else 0 ==> first, last = (u, u + 2) if job["reshard"] else (0, u + 1)
# ~ sum(units[first : u + 1]) + job ==> sum(units[first:last]) + job

# %% wrong: always the beginning of the backward pass => values always-the-last  from: a function of the unit
# ~ max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values())) ==> during(len(units) - 1)

# %% wrong: one number => values one-number  from: a function of the unit
# -     return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))
# +     return max(sum(during(u).values()) for u in range(len(units)))

# %% wrong: state with gradients => values state-with-gradients  from: a function of the unit
# ~ 12 ==> 16

# %% wrong: activations of unit u alone => values -  from: a function of the unit
# ~ sum(job["activations"][: u + 1]) ==> job["activations"][u]
