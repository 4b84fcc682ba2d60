import hashlib
import struct


# %% right: as written
KEEP = 2


def pack(step, data):
    body = struct.pack(">q", step) + data
    return hashlib.sha256(body).digest() + body


def whole(disk):
    found = {}
    for name in disk.names():
        blob = disk.read(name)
        if hashlib.sha256(blob[32:]).digest() == blob[:32]:
            found[struct.unpack(">q", blob[32:40])[0]] = name
    return found


def save(disk, step, data):
    found = whole(disk)
    keep = [found[each] for each in sorted(found)[-KEEP:]]
    for name in disk.names():
        if name.startswith("step-") and name not in keep:
            disk.remove(name)
    disk.write(f"step-{step}", pack(step, data))
    disk.sync(f"step-{step}")
    disk.sync_folder()


def load(disk):
    found = whole(disk)
    if not found:
        return None
    step = max(found)
    return step, disk.read(found[step])[40:]


# %% right: temporary names and a rename  from: as written
def save(disk, step, data):
    for name in disk.names():
        if name.startswith("tmp."):
            disk.remove(name)
    mine = sorted(int(name[5:]) for name in disk.names() if name.startswith("ckpt."))
    for old in mine[:-KEEP]:
        disk.remove(f"ckpt.{old}")
    disk.write("tmp.new", pack(step, data))
    disk.sync("tmp.new")
    disk.rename("tmp.new", f"ckpt.{step}")
    disk.sync_folder()


# %% right: any variant  from: as written
# - KEEP = 2
# + from course_lib import params
# + KEEP = params("atomic-checkpoint").keep

# %% wrong: the content is not synced => values -  from: as written
# -     disk.sync(f"step-{step}")

# %% wrong: the name is not synced => values nothing-loads  from: as written
# -     disk.sync_folder()

# %% wrong: no checksum => values -  from: as written
# ~ hashlib.sha256(blob[32:]).digest() == blob[:32] ==> name.startswith("step-") and len(blob) > 40


# %% wrong: in place => values nothing-loads  from: as written
def save(disk, step, data):
    disk.write("step", pack(step, data))
    disk.sync("step")
    disk.sync_folder()


# %% wrong: the old one goes first => values nothing-loads  from: as written
# ~ if name.startswith("step-") and name not in keep: ==> if name.startswith("step-"):

# %% wrong: leftovers stay => values no-room  from: as written
# ~ if name.startswith("step-") and name not in keep: ==> if name in found.values() and name not in keep:

# %% wrong: only the newest stays => generality nothing-loads  from: as written
#       disk.sync_folder()
# +     for name in keep:
# +         disk.remove(name)
# +     disk.sync_folder()

# %% wrong: none is removed => values raised  from: as written
# ~ disk.remove(name) ==> pass

# %% wrong: names as text => values -  from: as written
# ~ max(found) ==> max(found, key=str)

# %% wrong: everything else is removed => values others-touched  from: as written
# ~ if name.startswith("step-") and name not in keep: ==> if name not in keep:

# %% wrong: a checksum of the data alone => generality -  from: as written
# -     body = struct.pack(">q", step) + data
# -     return hashlib.sha256(body).digest() + body
# +     return hashlib.sha256(data).digest() + struct.pack(">q", step) + data
# ~ hashlib.sha256(blob[32:]).digest() == blob[:32] ==> len(blob) >= 40 and hashlib.sha256(blob[40:]).digest() == blob[:32]

# %% wrong: a full disk is passed over => generality -  from: as written
# -     disk.write(f"step-{step}", pack(step, data))
# +     try:
# +         disk.write(f"step-{step}", pack(step, data))
# +     except OSError:
# +         return

# %% wrong: the checkpoint is written twice => values rewrites  from: as written
#       disk.write(f"step-{step}", pack(step, data))
# +     disk.write(f"step-{step}", pack(step, data))

# %% wrong: one whole checkpoint during a save => generality nothing-loads  from: as written
# ~ [-KEEP:]] ==> [-1:]]
