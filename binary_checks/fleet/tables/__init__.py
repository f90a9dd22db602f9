"""Results as Parquet, and the questions that DuckDB answers of them."""
