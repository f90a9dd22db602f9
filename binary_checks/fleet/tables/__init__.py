"""Tables: results as Parquet files, and queries that DuckDB answers."""
