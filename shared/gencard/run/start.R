# Starts a program of an analyst's in R: reads the records from standard input, gives the program
# records() and output, and answers its outputs as JSON on standard output. Base R alone.
#
#   records()                           a data frame: factors with all declared levels, numbers, dates
#   output$table(name, data, counts)    a table(), matrix, named vector or data frame of numbers; columns
#                                       of integers are numbers of records, or those named in counts:
#                                       character() for sums or extremes of whole numbers
#   output$coefficients(name, fit)      lm, glm, coxph and the like, or a data frame of coefficients
#   output$curve(name, data, at_risk)   rising numbers as row names; the column of records at risk
#   output$scalar(name, value, count)   one number
#
# What a program prints goes where errors go.

local({
  base <- baseenv()
  unlockBinding("Sys.which", base)  # utils would start `which` with it, and a sandbox starts no process
  assign("Sys.which", function(names) structure(character(length(names)), names = names), base)
  lockBinding("Sys.which", base)
  for (name in c("methods", "datasets", "utils", "grDevices", "graphics", "stats")) {
    library(name, character.only = TRUE)
  }

  # -- the records

  read_whole <- function(con, n = 1L) readBin(con, "integer", n, endian = "little")

  read_word <- function(con) {
    word <- readChar(con, read_whole(con), useBytes = TRUE)
    Encoding(word) <- "UTF-8"
    word
  }

  read_column <- function(con, rows) {
    kind <- read_word(con)
    if (kind %in% c("numbers", "dates")) {
      values <- readBin(con, "double", rows, endian = "little")
      values[is.nan(values)] <- NA
      return(if (kind == "dates") structure(values, class = "Date") else values)
    }
    values <- read_whole(con, rows)
    if (kind == "integers") return(values)
    if (kind == "booleans") return(as.logical(values))
    levels <- vapply(seq_len(read_whole(con)), function(place) read_word(con), "")
    structure(values, levels = levels, class = c(if (kind == "ordered") "ordered", "factor"))
  }

  read_records <- function() {
    con <- file("stdin", "rb")
    on.exit(close(con))
    if (!identical(read_word(con), "gencard.r.v1")) {
      stop("run: gencard run CARD --program FILE --dry", call. = FALSE)
    }
    set.seed(read_whole(con), "Mersenne-Twister", "Inversion", "Rejection")
    rows <- read_whole(con)
    names <- vapply(seq_len(read_whole(con)), function(place) read_word(con), "")
    columns <- lapply(names, function(name) read_column(con, rows))
    structure(columns, names = names, row.names = .set_row_names(rows), class = "data.frame")
  }

  # -- the outputs

  refuse <- function(name, ...) stop("output '", name, "' ", ..., call. = FALSE)

  joined <- function(keys) do.call(paste, c(lapply(unname(keys), as.character), sep = " / "))

  # A table of three and more sides: the last one across, all others down.
  flat <- function(data) {
    sides <- dimnames(data)
    if (is.null(sides)) sides <- lapply(dim(data), seq_len)
    sides <- Map(function(names, size) if (is.null(names)) seq_len(size) else names, sides, dim(data))
    if (length(sides) == 1L) sides <- c(sides, list("value"))
    last <- length(sides)
    down <- joined(expand.grid(unname(sides[-last]), stringsAsFactors = FALSE))
    matrix(data, length(down), dimnames = list(down, as.character(sides[[last]])))
  }

  # A row for each combination of declared levels, so that the shape says nothing about the records.
  completed <- function(keys, values) {
    if (!all(vapply(keys, is.factor, NA))) return(structure(values, row.names = joined(keys)))
    names <- joined(expand.grid(lapply(unname(keys), levels), stringsAsFactors = FALSE))
    whole <- vapply(values, is.integer, NA)
    values <- values[match(names, joined(keys)), , drop = FALSE]
    if (all(whole)) values[is.na(values)] <- 0L
    structure(values, row.names = names)
  }

  framed <- function(name, data) {
    if (is.array(data)) data <- as.data.frame.matrix(flat(data))
    if (is.atomic(data)) data <- data.frame(value = data, row.names = names(data))
    if (!is.data.frame(data)) refuse(name, "is no table, matrix, vector or data frame")
    number <- vapply(data, is.numeric, NA) & !vapply(data, is.factor, NA)
    if (!any(number)) refuse(name, "holds no numbers")
    values <- data[number]
    if (any(!number)) completed(data[!number], values) else values
  }

  headings <- c(
    estimate = "^(Estimate|coef|Value)$",
    standard_error = "^(Std\\.? ?Error|se\\(coef\\))$",
    statistic = "^[tz]([ -]value)?$",
    pvalue = "^(Pr\\(.*\\)|p|p-value)$"
  )

  # Terms that the records do not determine keep their place, as NA.
  coefficients_of <- function(name, fit) {
    if (is.data.frame(fit) || is.matrix(fit)) return(fit)
    summed <- summary(fit)
    found <- if (is.null(summed$tTable)) stats::coef(summed) else summed$tTable
    if (!is.matrix(found)) refuse(name, "is neither a data frame nor a model with a summary")
    places <- vapply(headings, function(heading) grep(heading, colnames(found))[1L], 1L)
    places <- places[!is.na(places)]
    if (!"estimate" %in% names(places)) refuse(name, "has no estimates that are known by name")
    table <- found[, places, drop = FALSE]
    colnames(table) <- names(places)
    terms <- names(tryCatch(stats::coef(fit), error = function(error) NULL))
    if (!is.null(terms) && all(rownames(table) %in% terms)) {
      table <- table[match(terms, rownames(table)), , drop = FALSE]
      rownames(table) <- terms
    }
    table
  }

  facts_of <- function(fit) {
    facts <- list(
      nobs = function() stats::nobs(fit),
      df_resid = function() stats::df.residual(fit),
      llf = function() as.numeric(stats::logLik(fit)),
      rsquared = function() summary(fit)$r.squared,
      aic = function() stats::AIC(fit)
    )
    values <- lapply(facts, function(fact) tryCatch(fact(), error = function(error) NULL))
    unlist(values[vapply(values, function(value) is.numeric(value) && length(value) == 1L, NA)])
  }

  collected <- list()

  add <- function(kind, name, data, counts) {
    data <- framed(name, data)
    if (is.null(counts)) counts <- names(data)[vapply(data, is.integer, NA)]
    given <- list(kind = kind, name = as.character(name), data = data, counts = as.character(counts))
    if (given$name %in% vapply(collected, `[[`, "", "name")) refuse(name, "is given twice")
    collected[[length(collected) + 1L]] <<- given
    invisible(NULL)
  }

  output <- structure(class = "gencard_output", list(
    table = function(name, data, counts = NULL) add("table", name, data, counts),
    coefficients = function(name, fit) {
      add("coefficients", name, coefficients_of(name, fit), character())
      facts <- if (is.list(fit) && !is.data.frame(fit)) facts_of(fit)
      if (length(facts)) add("table", paste0(name, ", fit"), facts, character())
    },
    curve = function(name, data, at_risk = NULL) {
      data <- framed(name, data)
      places <- suppressWarnings(as.numeric(row.names(data)))
      if (anyNA(places) || is.unsorted(places)) refuse(name, "needs rising numbers as row names")
      add("curve", name, data, as.character(at_risk))
    },
    scalar = function(name, value, count = FALSE) {
      data <- data.frame(value = as.numeric(value), row.names = "value")
      add("scalar", name, data, if (count) "value" else character())
    }
  ))
  registerS3method("$", "gencard_output", function(x, name) {
    known <- names(unclass(x))
    if (!name %in% known) stop("output has no '", name, "'; valid: ", toString(known), call. = FALSE)
    unclass(x)[[name]]
  }, envir = baseenv())

  # -- the answer: RFC 8785 JSON

  quoted <- function(text) {
    if (any(grepl("[[:cntrl:]]", text))) stop("a name holds what cannot be printed", call. = FALSE)
    if (!length(text)) return(character())
    paste0('"', gsub('(["\\\\])', "\\\\\\1", enc2utf8(text)), '"')
  }

  # 15 significant digits are the same number again, so they are its one spelling.
  number <- function(value) {
    if (!is.finite(value) || abs(value) > 1e12) return("null")
    if (value == 0) return("0")
    parts <- strsplit(sprintf("%.14e", abs(value)), "e", fixed = TRUE)[[1L]]
    digits <- sub("0+$", "", sub(".", "", parts[1L], fixed = TRUE))
    power <- as.integer(parts[2L])
    many <- nchar(digits)
    text <- if (power >= many - 1L) {
      paste0(digits, strrep("0", power + 1L - many))
    } else if (power >= 0L) {
      paste0(substr(digits, 1L, power + 1L), ".", substr(digits, power + 2L, many))
    } else if (power >= -6L) {
      paste0("0.", strrep("0", -power - 1L), digits)
    } else {
      paste0(substr(digits, 1L, 1L), if (many > 1L) paste0(".", substr(digits, 2L, many)), "e", power)
    }
    paste0(if (value < 0) "-", text)
  }

  array_of <- function(texts) paste0("[", paste(texts, collapse = ","), "]")

  document <- function(one) {
    values <- vapply(seq_len(nrow(one$data)), function(row) {
      array_of(vapply(one$data, function(column) number(as.numeric(column[row])), ""))
    }, "")
    paste0(
      '{"column_names":', array_of(quoted(names(one$data))), ',"counts":', array_of(quoted(one$counts)),
      ',"kind":"', one$kind, '","name":', quoted(one$name),
      ',"row_names":', array_of(quoted(row.names(one$data))), ',"values":', array_of(values), "}"
    )
  }

  program <- commandArgs(trailingOnly = TRUE)[1L]
  frame <- read_records()
  attach(list(records = function() frame, output = output), name = "gencard", warn.conflicts = FALSE)
  sink(stderr())
  source(program, local = globalenv(), encoding = "UTF-8", keep.source = FALSE)
  while (sink.number() > 0L) sink()
  if (!length(collected)) stop("the program gave no output; call output$table(...)", call. = FALSE)
  body <- paste0('{"outputs":', array_of(vapply(collected, document, "")), "}")
  cat('{"format":"gencard.box.v1","saved":', nchar(body, "bytes"), "}\n", body, sep = "")
})
