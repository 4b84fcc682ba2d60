"""The names that chapter 11 uses."""

import torch
