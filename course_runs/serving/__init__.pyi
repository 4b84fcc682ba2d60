from .engine import Engine as Engine
from .engine import Limits as Limits
from .engine import Overloaded as Overloaded
from .paged_model import PagedModel as PagedModel
from .paged_model import Sampling as Sampling
