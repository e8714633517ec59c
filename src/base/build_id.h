// Which build of this program or library it is.
#pragma once

#include <string>

namespace opentrn {

// Hexadecimal digits of the GNU build id that the linker wrote into the object that holds this function:
// equal for equal code only. Internal fault where it wrote none.
const std::string& build_id();

}  // namespace opentrn
