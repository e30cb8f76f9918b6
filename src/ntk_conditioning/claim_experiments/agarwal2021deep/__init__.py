"""The experiments of Agarwal, Awasthi & Kale 2021, "A deep conditioning treatment"."""
