enum Color { Red, Green = 5, Blue, Mixed = Red | Green } enum Text { A = 'a', B = `b` } const enum Inline { X = 10, Y } enum Computed { Len = 'abc'.length }
console.log(Color.Red, Color[5], Color.Blue, Color.Mixed, Color, Text.A, Text, Inline.Y, Computed.Len);
