// The public face of the `arch` layer: generations, machine tables, timing tables, totals.
#pragma once

#include "arch/fact.h"
#include "arch/specs.h"
#include "arch/tables.h"
#include "arch/timing_table.h"
#include "arch/topology.h"
#include "arch/totals.h"
#include "base/generation.h"
