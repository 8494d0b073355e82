"""thunder_fuser: a Lightning Thunder executor that fuses regions of PyTorch programs into CUDA kernels."""
