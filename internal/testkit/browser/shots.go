package browser

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Shot is a page to take pictures of.
type Shot struct {
	Name string // begins the names of its files
	Path string // on the server
	Dark bool   // in dark colours too
}

// Widths are those of the pictures: a desk, a tablet, a phone; in CSS pixels,
// each with the height of its viewport.
var Widths = [][2]int{{1440, 900}, {768, 1024}, {390, 844}}

// ShotsDir is where pictures are wanted, from EXECUTOR_SCREENSHOTS; "" where
// they are not.
func ShotsDir() string { return os.Getenv("EXECUTOR_SCREENSHOTS") }

// Shots loads every path from a server with the page given, which may be
// signed in, at all Widths, and writes pictures into a directory as NAME-WIDTH.png
// and, where that is wanted, NAME-WIDTH-dark.png. It does nothing where the
// directory is "". Afterwards the page is light and has its usual size.
func Shots(t testing.TB, p *Page, dir, server string, shots []Shot) {
	t.Helper()
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, shot := range shots {
		for _, size := range Widths {
			p.Resize(size[0], size[1])
			p.Goto(server + shot.Path)
			p.shoot(filepath.Join(dir, fmt.Sprintf("%s-%d.png", shot.Name, size[0])))
			if shot.Dark {
				p.Scheme("dark")
				p.shoot(filepath.Join(dir, fmt.Sprintf("%s-%d-dark.png", shot.Name, size[0])))
				p.Scheme("light")
			}
		}
	}
	p.Scheme("light")
	p.Resize(1280, 900)
}

// shoot writes a small picture of the page.
func (p *Page) shoot(path string) {
	p.t.Helper()
	p.settle()
	p.must("write "+path, func(ctx context.Context) error {
		picture, err := capture(ctx, tallest)
		if err != nil {
			return err
		}
		small, err := shrink(picture)
		if err != nil {
			return err
		}
		return os.WriteFile(path, small, 0o644)
	})
}

// shrink writes a PNG with a palette of its 256 most frequent colours; others
// become the nearest of these. Pages have few, so nothing gets blurred.
func shrink(picture []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	palette := paletteOf(full)
	small := image.NewPaletted(full.Bounds(), palette)
	known := make(map[color.RGBA]uint8, len(palette))
	for y := full.Bounds().Min.Y; y < full.Bounds().Max.Y; y++ {
		for x := full.Bounds().Min.X; x < full.Bounds().Max.X; x++ {
			c := opaque(full.At(x, y))
			index, ok := known[c]
			if !ok {
				index = uint8(palette.Index(c)) // a palette has 256 colours at most
				known[c] = index
			}
			small.SetColorIndex(x, y, index)
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}

func opaque(c color.Color) color.RGBA {
	r, g, b, _ := c.RGBA()
	return color.RGBA{R: uint8(r >> 8), G: uint8(g >> 8), B: uint8(b >> 8), A: 255}
}

// paletteOf returns the most frequent colours, in an order that does not
// change from run to run.
func paletteOf(picture image.Image) color.Palette {
	count := map[color.RGBA]int{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[opaque(picture.At(x, y))]++
		}
	}
	colours := make([]color.RGBA, 0, len(count))
	for c := range count {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	palette := make(color.Palette, 0, 256)
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	return palette
}
