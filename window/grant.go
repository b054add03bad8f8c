package window

import (
	"encoding/binary"
	"math/rand/v2"
)

// newGrant is a grant of n permits as it stands in the set: the number of
// random bytes, so many of them, and n in four bytes, little-endian. Redisson's
// own have 16 random bytes, 8 in versions 3.17 to 3.20.
func newGrant(n int) string {
	b := make([]byte, 0, 21)
	b = append(b, 16)
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return string(b)
}
