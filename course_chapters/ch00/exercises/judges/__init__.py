IMPORTS = """import torch"""
