// CMake wants a source of its own for a shared library; everything is in opentrn_nrt.
#include "nrt/state.h"
