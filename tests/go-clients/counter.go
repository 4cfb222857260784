package main

import (
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/resource"
)

// counter counts in which form requests and responses go over the wire.
type counter struct {
	requests, responses, watches, json atomic.Int64
}

const protobufType = "application/vnd.kubernetes.protobuf"

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if strings.HasPrefix(request.Header.Get("Content-Type"), protobufType) {
			c.requests.Add(1)
		}
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		switch answered := response.Header.Get("Content-Type"); {
		case answered == protobufType+";stream=watch":
			c.watches.Add(1)
		case answered == protobufType:
			c.responses.Add(1)
		default:
			c.json.Add(1)
		}
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
