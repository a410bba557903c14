"""Stability rates inside other packages' habits: Quantus, torchmetrics, MLflow. Each module needs its own package."""
