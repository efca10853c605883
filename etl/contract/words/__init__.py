"""The kinds of values in a file: types, times, sizes, names, expressions, expectations."""
