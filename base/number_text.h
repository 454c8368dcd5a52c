// Numbers as messages, tables and keys show them. Threads: pure functions.
#pragma once

#include <string>

namespace lightcone {

// The fewest digits that read back as exactly `x`, in any locale. An exponent stands below 1e-4 and from 1e15 on: "10",
// "0.0005", "1e-05". Others are "inf" and "nan", with a sign where it is set.
std::string NumberText(double x);

// A share, from 0 to 1, as messages show it: with three digits, "50 %", "12.5 %", "0.125 %".
std::string PercentText(double share);

}  // namespace lightcone
