package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// PageOf is one page of a list.
type PageOf[T any] struct {
	Data       []T    `json:"data"`
	NextCursor string `json:"next_cursor"` // empty at the end

	document
}

// page reads one page.
func page[T any](ctx context.Context, c *Client, p string, q url.Values) (PageOf[T], error) {
	v, _, err := read[PageOf[T]](ctx, c, call{method: http.MethodGet, path: p, query: q, repeat: true})
	if err == nil && v.Data == nil {
		err = errForeign
	}
	return v, err
}

// pages yields what stands on all pages from cursor on. It ends after the first
// error.
func pages[T any](cursor string, read func(cursor string) (PageOf[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for {
			page, err := read(cursor)
			if err != nil {
				yield(none, err)
				return
			}
			for _, v := range page.Data {
				if !yield(v, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			if page.NextCursor == cursor {
				yield(none, errors.New("the service gave the same cursor twice"))
				return
			}
			cursor = page.NextCursor
		}
	}
}

// list reads a list that has one page.
func list[T any](ctx context.Context, c *Client, p string) ([]T, error) {
	page, err := page[T](ctx, c, p, nil)
	return page.Data, err
}

// query leaves out what is empty.
func query(values map[string]string) url.Values {
	q := url.Values{}
	for name, value := range values {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// named adds a parameter for each member: prefix.name=value.
func named(q url.Values, prefix string, values map[string]string) {
	for name, value := range values {
		q.Set(prefix+"."+name, value)
	}
}

func number(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// pollPause lies between two looks at something that takes its time.
const pollPause = 500 * time.Millisecond

// poll looks until done, and shows each what it sees. While the service is away it
// keeps asking, until ctx ends: then the error is ctx's.
func poll[T any](ctx context.Context, look func(context.Context) (T, error), done func(T) bool, each func(T)) (T, error) {
	var last T
	for {
		seen, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err != nil && !passing(err):
			return last, err
		case err == nil:
			if last = seen; each != nil {
				each(seen)
			}
			if done(seen) {
				return seen, nil
			}
		}
		if sleep(ctx, pollPause) != nil {
			<-ctx.Done() // too soon for another look; the end is near
			return last, ctx.Err()
		}
	}
}
