"""The experiments on papers that came after, or stand beside, the three: papers/followups.yaml."""
