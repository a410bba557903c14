"""Rows of tables and short series: features are columns, groups of columns or windows of steps."""
