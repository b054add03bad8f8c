// Fairlimit looks at the queues that programs share through package fairlimit,
// steers them, and runs commands when their turn comes.
//
//	fairlimit [-redis URL] [-prefix P] COMMAND ...
//
// Its manual is what `fairlimit -h` and `fairlimit help COMMAND` print. Flags may
// begin with one dash or with two.
package main
