"""The report on one page: a section a module, over charts drawn in per cent."""
