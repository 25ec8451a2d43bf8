package expr

import (
	"crypto/md5"  //nolint:gosec // the SQL function of that name
	"crypto/sha1" //nolint:gosec // the SQL function of that name
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"strconv"

	"github.com/streamd-io/streamd/messages"
)

func hashFunctions() []*Function {
	text := "string -> string | binary -> string"
	return []*Function{
		{
			Name: "md5", Family: "hash", Usage: "md5(a)", Signature: text, Doc: "the MD5 hash in hexadecimal", costly: true,
			make: rows(func(x *exec) error {
				h := md5.Sum(x.bytes(0)) //nolint:gosec // see above
				x.buf = hex.AppendEncode(x.buf, h[:])
				return nil
			}),
		},
		{
			Name: "sha1", Aliases: []string{"sha"}, Family: "hash", Usage: "sha1(a)", Signature: text, Doc: "the SHA-1 hash in hexadecimal", costly: true,
			make: rows(func(x *exec) error {
				h := sha1.Sum(x.bytes(0)) //nolint:gosec // see above
				x.buf = hex.AppendEncode(x.buf, h[:])
				return nil
			}),
		},
		{
			Name: "sha2", Family: "hash", Usage: "sha2(a, bits)", Signature: "string, int -> string | binary, int -> string",
			Doc: "the SHA-2 hash of 224, 256 (or 0), 384 or 512 bits in hexadecimal; NULL for other numbers", costly: true, make: rows(sha2),
		},
		{
			Name: "crc32", Family: "hash", Usage: "crc32(a)", Signature: "string -> bigint | binary -> bigint", Doc: "the CRC-32 checksum",
			make: rows(func(x *exec) error { x.setInt64(int64(crc32.ChecksumIEEE(x.bytes(0)))); return nil }),
		},
		{
			Name: "base64", Family: "hash", Usage: "base64(a)", Signature: text, Doc: "the bytes in base 64",
			make: rows(func(x *exec) error { x.buf = base64.StdEncoding.AppendEncode(x.buf, x.bytes(0)); return nil }),
		},
		{
			Name: "unbase64", Family: "hash", Usage: "unbase64(str)", Signature: "string -> binary", Doc: "the bytes of a base 64 text", fails: true,
			make: rows(func(x *exec) error {
				b, err := base64.StdEncoding.AppendDecode(x.buf, x.bytes(0))
				if err != nil {
					return x.fail("CONVERSION_INVALID_INPUT", "unbase64: %q is not base 64", x.bytes(0))
				}
				x.buf = b
				return nil
			}),
		},
		{
			Name: "hex", Family: "hash", Usage: "hex(a)", Signature: "bigint -> string | binary -> string | string -> string",
			Doc: "a number or bytes in hexadecimal", make: makeHex,
		},
		{
			Name: "unhex", Family: "hash", Usage: "unhex(str)", Signature: "string -> binary", Doc: "the bytes of a hexadecimal text; NULL for another text",
			make: rows(unhex),
		},
		{
			Name: "bin", Family: "hash", Usage: "bin(n)", Signature: "bigint -> string", Doc: "the number in binary",
			make: rows(func(x *exec) error { x.buf = strconv.AppendUint(x.buf, uint64(x.int64(0)), 2); return nil }),
		},
	}
}

func sha2(x *exec) error {
	switch x.int32(1) {
	case 224:
		h := sha256.Sum224(x.bytes(0))
		x.buf = hex.AppendEncode(x.buf, h[:])
	case 0, 256:
		h := sha256.Sum256(x.bytes(0))
		x.buf = hex.AppendEncode(x.buf, h[:])
	case 384:
		h := sha512.Sum384(x.bytes(0))
		x.buf = hex.AppendEncode(x.buf, h[:])
	case 512:
		h := sha512.Sum512(x.bytes(0))
		x.buf = hex.AppendEncode(x.buf, h[:])
	default:
		x.isNull = true
	}
	return nil
}

const upperHex = "0123456789ABCDEF"

func makeHex(_ *compiler, n *FuncCall) (kernel, error) {
	if n.Args[0].Type().Kind == messages.BigInt {
		return perRowText(func(x *exec) error {
			start := len(x.buf)
			x.buf = strconv.AppendUint(x.buf, uint64(x.int64(0)), 16)
			flipCase(x.buf[start:], 'a', 'f')
			return nil
		}), nil
	}
	return perRowText(func(x *exec) error {
		for _, c := range x.bytes(0) {
			x.buf = append(x.buf, upperHex[c>>4], upperHex[c&15])
		}
		return nil
	}), nil
}

// unhex reads an odd number of digits as if a 0 stood before them.
func unhex(x *exec) error {
	s := x.bytes(0)
	var pair [2]byte
	if len(s)%2 == 1 {
		pair = [2]byte{'0', s[0]}
		s = s[1:]
		if !x.appendHex(pair[:]) {
			return nil
		}
	}
	for ; len(s) > 0; s = s[2:] {
		if !x.appendHex(s[:2]) {
			return nil
		}
	}
	return nil
}

func (x *exec) appendHex(pair []byte) bool {
	b, err := hex.AppendDecode(x.buf, pair)
	if err != nil {
		x.isNull = true
		return false
	}
	x.buf = b
	return true
}
