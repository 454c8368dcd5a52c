// The waiting of the tensor library's threads.
#pragma once

namespace lightcone {

// Sets OMP_WAIT_POLICY=passive and executes the program again with the same arguments, unless the user chose a policy.
// Call it first in main(), as OpenMP reads the policy before main(). By default OpenMP's threads spin at every barrier.
// Beside other load a spinning thread keeps the thread that it waits for from running: a training ran at a fourteenth
// of its speed. Returns in the new process, where the policy is set already, and where the program cannot be executed.
void WaitPassively(char** argv);

}  // namespace lightcone
