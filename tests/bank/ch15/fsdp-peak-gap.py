"""Answers to fsdp-peak-gap: right ones, and wrong ones with the verdict and mistake that must find them."""

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
        now["gathered"], now["whole gradient"], now["work"] = (
            job["width"] * gathered,
            job["width"] * units[u],
            job["work"][u],
        )
        if sum(now.values()) > most:
            best, most = now, sum(now.values())
        done += units[u]
        acts.pop()
    return best


# %% wrong: the most of each part => values most-of-each


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

    moments = [during(u) for u in range(len(units))]
    return {name: max(each[name] for each in moments) for name in moments[0]}


# %% wrong: one unit is gathered => values one-gathered


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = u if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: always resharded => values not-kept


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0)
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: never resharded => values kept


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: the rest is not gathered => values rest-not-gathered


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * sum(units[first : u + 1]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: the rest has no state => values state-without-rest


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * sum(units) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: state is not sharded => values not-shared-out


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]),
            "gradients": 4 * sum(units[u + 1 :]),
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: weights are kept in 16 bits => values state-narrow


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": (width + 8) * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: gradients are kept in 16 bits => values gradients-narrow


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": width * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: gathered in 32 bits => values always-wide


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": 4 * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": 4 * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: all gradients from the beginning => values all-gradients


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: a share of the whole gradient => values share-of-gradient


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u] / ranks,
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: activations of what is done => values activations-of-done


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][u:]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: all units' work => values all-work


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
            "work": sum(job["work"]),
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: the next one up => values wrong-neighbour


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first, last = (u, u + 2) if job["reshard"] else (0, u + 1)
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first:last]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: always the beginning of the backward pass => values always-the-last


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

    return during(len(units) - 1)


# %% wrong: one number => values wrong-shape


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

    return max(sum(during(u).values()) for u in range(len(units)))


# %% wrong: state with gradients => values state-with-gradients


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 16 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": sum(job["activations"][: u + 1]),
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))


# %% wrong: activations of unit u alone => values -


def fsdp_peak(job):
    units, ranks, width = job["units"], job["ranks"], job["width"]

    def during(u):
        first = max(u - 1, 0) if job["reshard"] else 0
        return {
            "state": 12 * (sum(units) + job["rest"]) / ranks,
            "gradients": 4 * sum(units[u + 1 :]) / ranks,
            "gathered": width * (sum(units[first : u + 1]) + job["rest"]),
            "whole gradient": width * units[u],
            "activations": job["activations"][u],
            "work": job["work"][u],
        }

    return max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))
