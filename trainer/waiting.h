// How the tensor library's threads wait for each other.
#pragma once

namespace lightcone {

// Call it first in main(). Threads of OpenMP spin at every barrier by default; as soon as anything else wants a core (a
// loader thread, a server, a compiler) a spinning thread keeps the one it waits for from running, and a training was
// measured at a fourteenth of its speed. OMP_WAIT_POLICY=passive lets them sleep, but is read before main(): so, unless
// the user chose a policy, this sets it and executes the same program again with the same arguments. Returns in the new
// process, or at once where the policy is set already, or when the program cannot be executed again.
void WaitPassively(char** argv);

}  // namespace lightcone
