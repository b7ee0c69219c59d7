//! Runs bc's statements.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use num_bigint::BigInt;

use super::library;
use super::number::Number;
use super::parse::{Expression, Function, Local, Place, Statement};

/// More digits after the point than a program can use.
const MOST_SCALE: u32 = 100_000;
/// Nested calls of functions.
const DEEPEST: usize = 500;
/// The scale that `-l` sets.
const LIBRARY_SCALE: u32 = 20;

type Array = BTreeMap<i64, Number>;

/// What follows a statement.
pub(super) enum Flow {
    Next,
    Break,
    Continue,
    Return(Number),
    /// The end of the program.
    Halt,
}

/// A message: the statement ends, and the next line of the program runs.
type Outcome<T> = Result<T, String>;

pub(super) struct Machine {
    /// What the program has printed.
    pub(super) output: String,
    variables: HashMap<String, Number>,
    arrays: HashMap<String, Array>,
    functions: HashMap<String, Function>,
    scale: u32,
    input_base: u32,
    output_base: u32,
    last: Number,
    has_library: bool,
    depth: usize,
}

impl Machine {
    pub(super) fn new(has_library: bool) -> Machine {
        Machine {
            output: String::new(),
            variables: HashMap::new(),
            arrays: HashMap::new(),
            functions: HashMap::new(),
            scale: if has_library { LIBRARY_SCALE } else { 0 },
            input_base: 10,
            output_base: 10,
            last: Number::default(),
            has_library,
            depth: 0,
        }
    }

    pub(super) fn run(&mut self, statements: &[Statement]) -> Outcome<Flow> {
        for statement in statements {
            match self.statement(statement)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement) -> Outcome<Flow> {
        match statement {
            Statement::Expression(expression) => {
                let value = self.value(expression)?;
                if self.prints(expression) {
                    self.output += &value.shown(self.output_base);
                    self.output.push('\n');
                    self.last = value;
                }
            }
            Statement::Text(text) => self.output += text,
            Statement::Print(parts) => self.print(parts)?,
            Statement::Block(statements) => return self.run(statements),
            Statement::If(test, body, other) => {
                if !self.value(test)?.is_zero() {
                    return self.statement(body);
                }
                if let Some(other) = other {
                    return self.statement(other);
                }
            }
            Statement::While(test, body) => return self.repeat(Some(test), None, body),
            Statement::For { start, test, step, body } => {
                if let Some(start) = start {
                    self.value(start)?;
                }
                return self.repeat(test.as_ref(), step.as_ref(), body);
            }
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
            Statement::Return(value) => {
                let value = value.as_ref().map(|value| self.value(value)).transpose()?;
                return Ok(Flow::Return(value.unwrap_or_default()));
            }
            Statement::Halt | Statement::Quit => return Ok(Flow::Halt),
            Statement::Define(name, function) => {
                self.functions.insert(name.clone(), function.clone());
            }
        }
        Ok(Flow::Next)
    }

    /// Whether a statement of this expression prints its value.
    fn prints(&self, expression: &Expression) -> bool {
        match expression {
            Expression::Assign { .. } => false,
            Expression::Call(name, _) => !self.functions.get(name).is_some_and(|f| f.is_void),
            _ => true,
        }
    }

    fn print(&mut self, parts: &[Statement]) -> Outcome<()> {
        for part in parts {
            match part {
                Statement::Text(text) => self.output += &unescaped(text),
                Statement::Expression(expression) => {
                    let value = self.value(expression)?;
                    self.output += &value.shown(self.output_base);
                    self.last = value;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        test: Option<&Expression>,
        step: Option<&Expression>,
        body: &Statement,
    ) -> Outcome<Flow> {
        loop {
            if let Some(test) = test
                && self.value(test)?.is_zero()
            {
                return Ok(Flow::Next);
            }
            match self.statement(body)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                flow => return Ok(flow),
            }
            if let Some(step) = step {
                self.value(step)?;
            }
        }
    }

    fn value(&mut self, expression: &Expression) -> Outcome<Number> {
        match expression {
            Expression::Number(text) => Ok(Number::parse(text, self.input_base)),
            Expression::Read(place) => self.read(place),
            Expression::Array(name) => Err(format!("`{name}[]` is only an argument")),
            Expression::InParentheses(inner) => self.value(inner),
            Expression::Minus(inner) => Ok(self.value(inner)?.negated()),
            Expression::Not(inner) => Ok(truth(self.value(inner)?.is_zero())),
            Expression::Assign { place, operator, value } => {
                let mut value = self.value(value)?;
                if let Some(operator) = operator {
                    let old = self.read(place)?;
                    value = self.computed(&operator.to_string(), &old, &value)?;
                }
                self.assign(place, value.clone())?;
                Ok(value)
            }
            Expression::Step { place, by, shows_old } => {
                let old = self.read(place)?;
                let new = old.plus(&Number::new(BigInt::from(*by), 0));
                self.assign(place, new.clone())?;
                Ok(if *shows_old { old } else { new })
            }
            Expression::Binary(operator, left, right) => {
                let left = self.value(left)?;
                match *operator {
                    "&&" if left.is_zero() => return Ok(truth(false)),
                    "||" if !left.is_zero() => return Ok(truth(true)),
                    _ => {}
                }
                let right = self.value(right)?;
                self.computed(operator, &left, &right)
            }
            Expression::Call(name, arguments) => self.call(name, arguments),
        }
    }

    fn computed(&self, operator: &str, left: &Number, right: &Number) -> Outcome<Number> {
        let order = || left.compare(right);
        Ok(match operator {
            "+" => left.plus(right),
            "-" => left.minus(right),
            "*" => left.times(right, self.scale),
            "/" => left.over(right, self.scale).ok_or("Divide by zero")?,
            "%" => left.rest(right, self.scale).ok_or("Modulo by zero")?,
            "^" => left.power(right, self.scale)?,
            "&&" | "||" => truth(!right.is_zero()),
            "==" => truth(order() == Ordering::Equal),
            "!=" => truth(order() != Ordering::Equal),
            "<" => truth(order() == Ordering::Less),
            "<=" => truth(order() != Ordering::Greater),
            ">" => truth(order() == Ordering::Greater),
            _ => truth(order() != Ordering::Less),
        })
    }

    fn read(&mut self, place: &Place) -> Outcome<Number> {
        let small = |value: u32| Number::new(BigInt::from(value), 0);
        Ok(match place {
            Place::Variable(name) => self.variables.get(name).cloned().unwrap_or_default(),
            Place::Element(name, index) => {
                let index = self.index(index)?;
                let array = self.arrays.get(name);
                array.and_then(|array| array.get(&index)).cloned().unwrap_or_default()
            }
            Place::Scale => small(self.scale),
            Place::InputBase => small(self.input_base),
            Place::OutputBase => small(self.output_base),
            Place::Last => self.last.clone(),
        })
    }

    fn assign(&mut self, place: &Place, value: Number) -> Outcome<()> {
        let small = |most: u32| {
            let whole = value.whole().unwrap_or(i64::MAX).clamp(0, i64::from(most));
            u32::try_from(whole).unwrap_or(most)
        };
        match place {
            Place::Variable(name) => {
                self.variables.insert(name.clone(), value);
            }
            Place::Element(name, index) => {
                let index = self.index(index)?;
                self.arrays.entry(name.clone()).or_default().insert(index, value);
            }
            Place::Scale => {
                if small(u32::MAX) > MOST_SCALE {
                    return Err(format!("scale too large: at most {MOST_SCALE}"));
                }
                self.scale = small(MOST_SCALE);
            }
            Place::InputBase => self.input_base = small(16).max(2),
            Place::OutputBase => self.output_base = small(u32::MAX).max(2),
            Place::Last => self.last = value,
        }
        Ok(())
    }

    fn index(&mut self, index: &Expression) -> Outcome<i64> {
        let index = self.value(index)?.whole().filter(|index| (0..16_777_216).contains(index));
        index.ok_or_else(|| "Array index out of bounds".to_owned())
    }

    fn call(&mut self, name: &str, arguments: &[Expression]) -> Outcome<Number> {
        if let Some(function) = self.functions.get(name).cloned() {
            return self.call_function(name, &function, arguments);
        }
        if let ("length" | "scale" | "sqrt", [argument]) = (name, arguments) {
            let value = self.value(argument)?;
            return match name {
                "length" => Ok(Number::new(BigInt::from(value.length()), 0)),
                "scale" => Ok(Number::new(BigInt::from(value.scale), 0)),
                _ => value
                    .root(self.scale)
                    .ok_or_else(|| "Square root of a negative number".to_owned()),
            };
        }
        let values = arguments.iter().map(|argument| self.value(argument));
        let values = values.collect::<Outcome<Vec<_>>>()?;
        self.has_library
            .then(|| library::call(name, &values, self.scale))
            .flatten()
            .ok_or_else(|| format!("Function {name} not defined."))
    }

    /// Parameters and locals hide the variables of the same names, in the functions that are called too.
    fn call_function(
        &mut self,
        name: &str,
        function: &Function,
        arguments: &[Expression],
    ) -> Outcome<Number> {
        if arguments.len() != function.parameters.len() {
            return Err(format!("Parameter number mismatch: {name}"));
        }
        if self.depth >= DEEPEST {
            return Err("functions nest too deeply".to_owned());
        }
        let mut given = Vec::new();
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            given.push(match argument {
                Expression::Array(name) if parameter.is_array => {
                    Bound::Array(self.arrays.get(name).cloned().unwrap_or_default())
                }
                _ if parameter.is_array => {
                    return Err(format!("Parameter type mismatch: {}", parameter.name));
                }
                argument => Bound::Number(self.value(argument)?),
            });
        }
        let names: Vec<&Local> = function.parameters.iter().chain(&function.locals).collect();
        let locals = function.locals.iter().map(|local| match local.is_array {
            true => Bound::Array(Array::new()),
            false => Bound::Number(Number::default()),
        });
        let values: Vec<Bound> = given.into_iter().chain(locals).collect();
        let hidden: Vec<_> =
            names.iter().zip(values).map(|(local, value)| self.bind(local, Some(value))).collect();
        self.depth += 1;
        let result = self.run(&function.body);
        self.depth -= 1;
        for (local, value) in names.iter().zip(hidden).rev() {
            self.bind(local, value);
        }
        match result? {
            Flow::Return(value) => Ok(value),
            _ => Ok(Number::default()),
        }
    }

    /// Sets a variable or an array, and returns what it was.
    fn bind(&mut self, local: &Local, value: Option<Bound>) -> Option<Bound> {
        let name = &local.name;
        let old = match local.is_array {
            true => self.arrays.remove(name).map(Bound::Array),
            false => self.variables.remove(name).map(Bound::Number),
        };
        match value {
            Some(Bound::Array(array)) => {
                self.arrays.insert(name.clone(), array);
            }
            Some(Bound::Number(number)) => {
                self.variables.insert(name.clone(), number);
            }
            None => {}
        }
        old
    }
}

/// The value of a parameter or a local variable.
enum Bound {
    Number(Number),
    Array(Array),
}

fn truth(is: bool) -> Number {
    Number::new(BigInt::from(i32::from(is)), 0)
}

/// A text of `print`, with its escapes.
fn unescaped(text: &str) -> String {
    let mut shown = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            shown.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => shown.push('\n'),
            Some('t') => shown.push('\t'),
            Some('r') => shown.push('\r'),
            Some('f') => shown.push('\u{c}'),
            Some('a') => shown.push('\u{7}'),
            Some('b') => shown.push('\u{8}'),
            Some('q') => shown.push('"'),
            Some('\\') => shown.push('\\'),
            Some(other) => shown.extend(['\\', other]),
            None => shown.push('\\'),
        }
    }
    shown
}
