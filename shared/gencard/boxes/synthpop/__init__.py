"""Sequential classification and regression trees, as the R package synthpop draws records."""
