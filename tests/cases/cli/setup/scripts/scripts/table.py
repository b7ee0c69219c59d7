import numpy as np
import yaml


def later():
    import torch
