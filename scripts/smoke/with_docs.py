"""The extra ``docs``: what the documentation is built with."""

import furo
import myst_parser
import sphinx
import sphinx_click

print(sphinx.__version__, myst_parser.__version__, furo.__version__, sphinx_click.__name__)
