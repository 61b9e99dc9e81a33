#!/usr/bin/env Rscript
# Two tables: how marriages are rated by religiousness, and the mean of the index of affairs.

frame <- records()
output$table("rating by religiousness", table(frame$rate_marriage, frame$religious))
by_children <- split(frame$affairs, frame$children)
output$table("affairs by children", data.frame(
  mean = sapply(by_children, mean),
  std = sapply(by_children, sd),
  size = lengths(by_children)
))
