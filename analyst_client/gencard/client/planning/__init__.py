"""From a model formula to a release: the statistics an analysis needs, their price, one call for all."""
