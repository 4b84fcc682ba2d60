# %% right: a dictionary of lines
def failing(plan, task):
    tokens = task["sequences"] * task["seq"]
    days = task["tokens"] / tokens * plan["seconds"] / plan["goodput"] / 86_400
    usd = days * 24 * plan["gpus"] * task["usd_per_hour"]
    mfu = 6 * task["parameters"] * tokens / (plan["gpus"] * task["peak"] * plan["seconds"])
    gpus = plan["gpus"]
    product = plan["tp"] * plan["cp"] * plan["pp"] * plan["dp"]
    lines = {
        "degrees": product == gpus <= task["gpus"] and gpus % task["per_server"] == 0,
        "batch": plan["dp"] * plan["micro"] * plan["micro_batches"] == task["sequences"],
        "memory": plan["memory"] <= 0.95 * task["memory"],
        "deadline": days <= task["days"],
        "budget": usd <= task["usd"],
        "claims": abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd,
        "waste": mfu >= task["least_mfu"],
    }
    return [line for line, holds in lines.items() if not holds]


# %% right: any variant  from: a dictionary of lines
# - def failing(plan, task):
# + from course_lib import params
# + BILLED = params("plan-rubric").billed
# + def failing(plan, task):
# ~ days * 24 * plan["gpus"] ==> days * 24 * (plan if BILLED == "used" else task)["gpus"]
# ~ abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd ==> abs(plan["days"] / days - 1) <= 0.05 and abs(plan["usd"] / usd - 1) <= 0.05


# %% wrong: every plan is good => values always-the-same
def failing(plan, task):
    return []


# %% wrong: failures cost nothing => values no-goodput  from: a dictionary of lines
# ~ plan["goodput"] / 86_400 ==> 86_400

# %% wrong: goodput multiplied => values times-goodput  from: a dictionary of lines
# ~ "] / plan[" ==> "] * plan["

# %% wrong: claims are believed => values claimed-days  from: a dictionary of lines
# ~ usd = days * 24 ==> usd = plan["days"] * 24
# ~ "deadline": days <= task["days"], ==> "deadline": plan["days"] <= task["days"],

# %% wrong: no reserve => values no-reserve  from: a dictionary of lines
# ~ 0.95 * task ==> task

# %% wrong: full fails => generality full-fails  from: a dictionary of lines
# ~ ["memory"] <= 0.95 * task ==> ["memory"] < 0.95 * task

# %% wrong: a smaller batch is fine => values batch-at-most  from: a dictionary of lines
# ~ plan["micro_batches"] == task["sequences"] ==> plan["micro_batches"] <= task["sequences"]

# %% wrong: cp counts as samples => values cp-counted  from: a dictionary of lines
# ~ "micro" ==> "cp"] * plan["micro"

# %% wrong: half a server is fine => values half-servers  from: a dictionary of lines
# ~ ["gpus"] and gpus % task["per_server"] == 0, ==> ["gpus"],

# %% wrong: one near claim is enough => values either-claim  from: a dictionary of lines
# ~ days and abs ==> days or abs

# %% wrong: the cluster's utilization => values mfu-of-all  from: a dictionary of lines
# ~ mfu = 6 * task["parameters"] * tokens / (plan["gpus"] * task["peak"] * plan["seconds"]) ==> mfu = 6 * task["parameters"] * tokens / (task["gpus"] * task["peak"] * plan["seconds"])

# %% wrong: the first line alone => values first-alone  from: a dictionary of lines
# ~ [line for line, holds in lines.items() if not holds] ==> [line for line, holds in lines.items() if not holds][:1]

# %% wrong: everyone pays for everything => values other-bill unless billed=all  from: a dictionary of lines
# ~ 24 * plan["gpus"] ==> 24 * task["gpus"]

# %% wrong: one GPU must stay free => values -  from: a dictionary of lines
# ~ gpus <= task["gpus"] and gpus ==> gpus < task["gpus"] + (gpus == 64) and gpus

# %% wrong: a claim 4 % off is refused => generality -  from: a dictionary of lines
# ~ "claims": abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd, ==> "claims": abs(plan["days"] - days) <= 0.035 * days and abs(plan["usd"] - usd) <= 0.035 * usd,

# %% wrong: a claim just beyond the bound holds => generality -  from: a dictionary of lines
# ~ "claims": abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd, ==> "claims": abs(plan["days"] - days) <= 0.051 * days and abs(plan["usd"] - usd) <= 0.051 * usd,
