"""The mathematics of block betting on interventions, compiled."""
