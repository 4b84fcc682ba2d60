from .gloo import RealComm as RealComm
from .launcher import launch as launch
