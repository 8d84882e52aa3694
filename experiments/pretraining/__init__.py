"""What `experiments/pretrain_tinyweb.py` is made of."""
