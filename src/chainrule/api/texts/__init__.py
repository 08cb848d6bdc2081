"""What models do with texts: correct, rescore, rank, filter, find near words."""
