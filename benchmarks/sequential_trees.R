# Each column drawn from an rpart tree on all columns before it, as synthpop's default method does.
# Rscript sequential_trees.R IN.csv TYPES OUT SEEDS
#   TYPES: one letter a column, f for names, n for numbers; SEEDS: such as 1,2,3; writes OUT<seed>.csv
# Prints "<seed> <seconds>" for each seed: the trees and the draws, without reading and writing.
suppressMessages(library(rpart))
arguments <- commandArgs(TRUE)
types <- strsplit(arguments[2], "")[[1]]
seeds <- as.integer(strsplit(arguments[4], ",")[[1]])
classes <- ifelse(types == "f", "character", "numeric")
data <- read.csv(arguments[1], colClasses = classes, check.names = FALSE)
for (j in which(types == "f")) data[[j]] <- factor(data[[j]]) # an empty text is a level

pick <- function(values, size) values[sample.int(length(values), size, replace = TRUE)]

draw_name <- function(fit, y, given) {
  below <- t(apply(predict(fit, newdata = given), 1, cumsum))
  code <- pmin(rowSums(runif(nrow(given)) > below) + 1, nlevels(y))
  factor(levels(y)[code], levels = levels(y))
}

draw_number <- function(fit, y, given) {
  leaf <- fit$where
  fit$frame$yval <- seq_len(nrow(fit$frame))
  reached <- predict(fit, newdata = given)
  drawn <- numeric(nrow(given))
  for (node in unique(reached)) {
    drawn[reached == node] <- pick(y[leaf == node], sum(reached == node))
  }
  drawn
}

draw <- function(y, x, given) {
  if (length(unique(y)) == 1) return(rep(y[1], nrow(given)))
  method <- if (is.factor(y)) "class" else "anova"
  fit <- rpart(y ~ ., data = data.frame(y = y, x), method = method, minbucket = 5, cp = 1e-8)
  if (is.factor(y)) draw_name(fit, y, given) else draw_number(fit, y, given)
}

synthesise <- function(data) {
  rows <- nrow(data)
  x <- data.frame(row.names = seq_len(rows))
  given <- x
  made <- data
  one <- function(y) if (length(x)) draw(y, x, given) else pick(y, rows)
  for (j in seq_along(data)) {
    y <- data[[j]]
    name <- paste0("v", j)
    if (!anyNA(y)) {
      made[[j]] <- given[[name]] <- one(y)
      x[[name]] <- y
      next
    }
    known <- !is.na(y)
    drawn <- one(factor(known))
    x[[paste0(name, "known")]] <- factor(known)
    given[[paste0(name, "known")]] <- drawn
    wanted <- drawn == "TRUE"
    made[[j]] <- NA
    made[[j]][wanted] <- draw(y[known], x[known, , drop = FALSE], given[wanted, , drop = FALSE])
    x[[name]] <- ifelse(known, y, 0)
    given[[name]] <- ifelse(wanted, made[[j]], 0)
  }
  made
}

for (seed in seeds) {
  set.seed(seed)
  seconds <- system.time(made <- synthesise(data))["elapsed"]
  write.csv(made, paste0(arguments[3], seed, ".csv"), row.names = FALSE, na = "")
  cat(seed, seconds, "\n")
}
