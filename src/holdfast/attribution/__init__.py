"""A masked model → scores of its features, by LIME, Shapley values, gradients, occlusion, or whatever users have."""
