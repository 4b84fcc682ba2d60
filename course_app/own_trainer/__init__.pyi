from .closing import show as show
