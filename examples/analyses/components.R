#!/usr/bin/env Rscript
# Principal components of the standardised columns.

frame <- as.data.frame(lapply(records(), function(column) as.numeric(as.character(column))))
fit <- prcomp(frame, scale. = TRUE)
loadings <- fit$rotation[, 1:3]
loadings <- sweep(loadings, 2, sign(loadings[1, ]), "*")  # the sign is arbitrary, so it is fixed
colnames(loadings) <- paste("component", 1:3)
output$table("loadings", loadings)
share <- fit$sdev^2 / sum(fit$sdev^2)
output$table("explained", data.frame(share = share[1:3], row.names = colnames(loadings)))
