// Numbers as messages, tables and keys show them.
#pragma once

#include <string>

namespace lightcone {

// The fewest digits that read back as exactly `x`; an exponent only below 1e-4 and from 1e15 on: "10", "0.0005",
// "1e-05"; "inf", "nan", with a sign where it is set. Never fails; any thread, any locale.
std::string NumberText(double x);

}  // namespace lightcone
