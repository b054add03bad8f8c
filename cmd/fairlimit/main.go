package main

import "os"

func main() { os.Exit(thisProcess().run(os.Args[1:])) }
